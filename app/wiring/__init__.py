"""The composition root: the only place that names a kind and knows which part serves which port."""
