"""``python -m unrack``."""

from unrack.cli.main import main

main()
