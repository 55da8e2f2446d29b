CREATE TABLE events (
    number INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    person TEXT,
    body TEXT NOT NULL,
    PRIMARY KEY (number)
);

CREATE INDEX events_person ON events (person);

CREATE TABLE invitations (
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    label TEXT NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    person TEXT,
    PRIMARY KEY (id)
);

CREATE TABLE people (
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    role TEXT NOT NULL,
    language TEXT NOT NULL,
    device TEXT,
    condition TEXT,
    joined DOUBLE PRECISION NOT NULL,
    passed BOOLEAN,
    plan TEXT NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX people_session ON people (session);

CREATE TABLE plans (
    hash TEXT NOT NULL,
    text TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (hash)
);

CREATE TABLE study (
    id SERIAL NOT NULL,
    secret TEXT NOT NULL,
    plan TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE tasks (
    id TEXT NOT NULL,
    scene TEXT NOT NULL,
    target TEXT NOT NULL,
    condition TEXT NOT NULL,
    part TEXT NOT NULL,
    source TEXT NOT NULL,
    role TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE batches (
    id TEXT NOT NULL,
    person TEXT NOT NULL,
    device TEXT NOT NULL,
    condition TEXT NOT NULL,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    opened DOUBLE PRECISION NOT NULL,
    deadline DOUBLE PRECISION NOT NULL,
    closed DOUBLE PRECISION,
    plan TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(person) REFERENCES people (id)
);

CREATE INDEX batches_person ON batches (person);

CREATE INDEX batches_state ON batches (state, deadline);

CREATE TABLE cells (
    task TEXT NOT NULL,
    device TEXT NOT NULL,
    wanted INTEGER NOT NULL,
    valid INTEGER NOT NULL,
    open INTEGER NOT NULL,
    PRIMARY KEY (task, device),
    FOREIGN KEY(task) REFERENCES tasks (id)
);

CREATE TABLE trials (
    id TEXT NOT NULL,
    batch TEXT NOT NULL,
    place INTEGER NOT NULL,
    task TEXT NOT NULL,
    answered DOUBLE PRECISION,
    answer TEXT NOT NULL,
    flags TEXT NOT NULL,
    counts INTEGER NOT NULL,
    plan TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(batch) REFERENCES batches (id),
    FOREIGN KEY(task) REFERENCES tasks (id)
);

CREATE INDEX trials_batch ON trials (batch, place);

CREATE INDEX trials_task ON trials (task);

CREATE TABLE answers (
    trial TEXT NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (trial, number),
    FOREIGN KEY(trial) REFERENCES trials (id)
);

CREATE TABLE steps (
    trial TEXT NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    step TEXT NOT NULL,
    PRIMARY KEY (trial, number),
    FOREIGN KEY(trial) REFERENCES trials (id)
);
