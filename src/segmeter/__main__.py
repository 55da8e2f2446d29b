"""`python -m segmeter`: the command line where no script is installed."""

from segmeter.cli import main

if __name__ == "__main__":
    main()
