"""`python -m shardproof`: the command line, also where the script is not on the path."""

from shardproof.cli.main import run

run()
