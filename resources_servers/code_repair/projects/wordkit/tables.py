"""Tables of plain text."""

from .lines import shorten


def aligned(rows: list[list[str]], widest: int) -> list[str]:
    """Return each row as a line with its cells in columns, two spaces apart. Longer cells than `widest` are cut."""
    cut = [[shorten(cell, widest) for cell in row] for row in rows]
    columns = max((len(row) for row in cut), default=0)
    widths = [max(len(row[n]) for row in cut if n < len(row)) for n in range(columns)]
    return ["  ".join(cell.ljust(widths[n]) for n, cell in enumerate(row)).rstrip() for row in cut]


def grouped(rows: list[list[str]], column: int) -> dict[str, list[list[str]]]:
    """Return the rows by their cell in a column, in their order. Shorter rows belong to the group ""."""
    groups: dict[str, list[list[str]]] = {}
    for row in rows:
        key = row[column] if column < len(row) else ""
        groups.setdefault(key, []).append(row)
    return groups
