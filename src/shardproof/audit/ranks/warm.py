"""Imported by the forkserver before the first rank starts, so that ranks need not; it only imports."""

import shardproof.audit.control
import shardproof.audit.layouts.build
import shardproof.audit.ranks.worker  # noqa: F401
