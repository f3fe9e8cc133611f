"""The Failure Map: mechanisms as executable cases, verified by running them; published pages verified the same way."""

from shardproof.failures.dictionary import Lowered, lowered
from shardproof.failures.store import record_text, write_record
from shardproof.failures.verify import verify_page

__all__ = ["Lowered", "lowered", "record_text", "verify_page", "write_record"]
