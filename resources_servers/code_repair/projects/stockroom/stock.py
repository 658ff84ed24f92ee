"""Stock: the number of pieces of each item."""


def after_moves(stock: dict[str, int], moves: list[list[object]]) -> dict[str, int]:
    """Return the stock after moves such as ["bolt", -3]. Items without pieces are dropped."""
    result = dict(stock)
    for item, change in moves:
        result[str(item)] = result.get(str(item), 0) + int(str(change))
    return {item: pieces for item, pieces in sorted(result.items()) if pieces != 0}


def to_reorder(stock: dict[str, int], levels: dict[str, int]) -> dict[str, int]:
    """Return the pieces that are missing to the level of each item, where any are."""
    missing = {item: level - stock.get(item, 0) for item, level in sorted(levels.items())}
    return {item: pieces for item, pieces in missing.items() if pieces > 0}
