"""GPT-2 with random weights, and the gradients of a real backward pass on random tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXT, VOCABULARY = 1024, 50257


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a layer norm and inside a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, tokens, width)."""
        batch, tokens, width = x.shape
        split = self.c_attn(self.ln_1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """The shapes of GPT-2 124M: 148 parameters, the output layer tied to the token embedding."""

    def __init__(self, width: int = 768, layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / ((2 * layers) ** 0.5 if "proj" in name else 1))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (batch, tokens) int64. Returns the mean next-token cross entropy."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def gradients(dtype: torch.dtype, *, batch: int = 2, tokens: int = 512) -> list[Tensor]:
    """The gradients of one backward pass of GPT-2 124M in float32, converted to `dtype`."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = GPT2()
    model(torch.randint(VOCABULARY, (batch, tokens), generator=generator)).backward()
    return [parameter.grad.to(dtype) for parameter in model.parameters() if parameter.grad is not None]
