"""The file adapter: gradients for a job of the user's own, and judging what it wrote; the security boundary."""

from shardproof.audit.files.collect import collect, is_export
from shardproof.audit.files.export import FILES, export, export_plan

__all__ = ["FILES", "collect", "export", "export_plan", "is_export"]
