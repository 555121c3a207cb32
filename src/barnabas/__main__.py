"""`python -m barnabas` is `barnabas`."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()
