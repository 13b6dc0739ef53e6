DIFFERENCES: dict[str, str] = {}
