"""The Failure Map: published pages read and verified by running them."""

from shardproof.failures.store import write_record
from shardproof.failures.verify import verify_page

__all__ = ["verify_page", "write_record"]
