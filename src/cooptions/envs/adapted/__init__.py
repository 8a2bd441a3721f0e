"""Named environments of JaxMARL and Jumanji, one file each, which declares the factorisation."""
