"""Runtime: processes, threads, devices, remote files, cache folders and redaction."""
