"""Curves between two logarithmic axes, as an SVG file, for the docs."""

import math

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 720, 420, 70, 50, 50, 190
COLORS = ("#1f6feb", "#d29922", "#8b949e")


def ticks(least, most):
    """Powers of ten and their 2 and 5 times, as many as are few."""
    found = [digit * 10.0 ** power for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
             for digit in (1, 2, 5)]
    return [each for each in found if least <= each * 1.001 and each <= most * 1.001]


def curves(path, title, x_label, y_label, named):
    """named: {name: [(x, y), ...]}, all above 0. The names stand beside the ends of the curves."""
    xs = sorted({x for points in named.values() for x, _ in points})
    ys = [y for points in named.values() for _, y in points]
    low, high = 10 ** math.floor(math.log10(min(ys))), max(ys) * 1.2

    def x_at(x):
        part = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y_at(y):
        return HEIGHT - BOTTOM - math.log(y / low) / math.log(high / low) * (HEIGHT - TOP - BOTTOM)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             'font-size="13">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="26" font-size="16">{title}</text>']
    for y in ticks(low, high):
        lines += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_at(y):.1f}" y2="{y_at(y):.1f}" stroke="#e5e7eb"/>',
                  f'<text x="{LEFT - 8}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:g}</text>']
    for x in xs:
        lines.append(f'<text x="{x_at(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines += [f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{x_label}</text>',
              f'<text x="{LEFT - 55}" y="{TOP - 8}">{y_label}</text>']
    for color, (name, points) in zip(COLORS, named.items()):
        places = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in sorted(points))
        end = max(points)
        lines += [f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"/>',
                  f'<text x="{x_at(end[0]) + 8:.1f}" y="{y_at(end[1]) + 4:.1f}" fill="{color}">{name}</text>']
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")
