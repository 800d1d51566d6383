"""`python -m kgwalk` is the command line `kgwalk`."""

from kgwalk.cli.main import main

if __name__ == "__main__":
    main()
