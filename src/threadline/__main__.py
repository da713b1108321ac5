"""`python -m threadline` is the command `threadline`."""

from threadline.cli.main import main

if __name__ == "__main__":
    main()
