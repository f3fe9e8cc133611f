"""`shardproof clip`: the rule on gradients in files."""
