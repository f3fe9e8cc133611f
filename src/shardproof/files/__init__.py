"""Gradients in files: JSON shards, `.npy` and `.safetensors`, one file for each rank; no framework needed."""

from shardproof.files.clipping import ClippedFile, ClippedFiles, clip_files
from shardproof.files.gradient_file import Element, GradientFile, Tensor
from shardproof.files.json_shards import ClippedShards, clip_json
from shardproof.files.opening import SUFFIXES, open_gradient_file

__all__ = [
    "SUFFIXES",
    "ClippedFile",
    "ClippedFiles",
    "ClippedShards",
    "Element",
    "GradientFile",
    "Tensor",
    "clip_files",
    "clip_json",
    "open_gradient_file",
]
