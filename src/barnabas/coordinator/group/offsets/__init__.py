"""How far each group has got in each partition: commit, fetch, delete, expire."""
