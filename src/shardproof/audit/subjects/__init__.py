"""Subjects: whose clipping is audited, found without importing it, and called on every rank."""

from shardproof.audit.subjects.built_in import BUILT_IN, missing
from shardproof.audit.subjects.capabilities import Capabilities, declared, outside
from shardproof.audit.subjects.find import CONTROL, JAX, Clip, adapted, find, framework_of, parse
from shardproof.audit.subjects.loading import Loaded, load

__all__ = [
    "BUILT_IN",
    "CONTROL",
    "JAX",
    "Capabilities",
    "Clip",
    "Loaded",
    "adapted",
    "declared",
    "find",
    "framework_of",
    "load",
    "missing",
    "outside",
    "parse",
]
