"""The Failure Map: published pages read and verified by running them."""

from shardproof.failures.store import record_text, write_record
from shardproof.failures.verify import verify_page

__all__ = ["record_text", "verify_page", "write_record"]
