"""Curves between two logarithmic axes, bars, and spans of time, as SVG files, for the docs."""

import math

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 720, 420, 70, 50, 50, 190
COLORS = ("#1f6feb", "#d29922", "#8b949e", "#2da44e", "#cf222e", "#8250df", "#0e7490", "#57606a")


def ticks(least, most):
    """Powers of ten and their 2 and 5 times, as many as are few."""
    found = [digit * 10.0 ** power for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
             for digit in (1, 2, 5)]
    return [each for each in found if least <= each * 1.001 and each <= most * 1.001]


def labels_apart(places):
    """{name: y}, moved down so far that no two are on each other."""
    free = 0.0
    found = {}
    for name, y in sorted(places.items(), key=lambda each: each[1]):
        found[name] = max(y, free)
        free = found[name] + 15
    return found


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
    beside = labels_apart({name: y_at(max(points)[1]) + 4 for name, points in named.items()})
    for color, (name, points) in zip(COLORS, named.items()):
        places = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in sorted(points))
        end = max(points)
        lines += [f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"/>',
                  f'<text x="{x_at(end[0]) + 8:.1f}" y="{beside[name]:.1f}" fill="{color}">{name}</text>']
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def bars(path, title, groups, unit=""):
    """groups: {label: {name: value}}, from 0 up; the names are alike in all groups, and have a color each."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    most = max(value for values in groups.values() for value in values.values())
    thick, gap, left, wide = 16, 14, 170, 430
    height = TOP + sum(len(values) * thick + gap for values in groups.values()) + 24 * (1 + (len(names) - 1) // 4)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
             'font-size="13">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             f'<text x="20" y="26" font-size="16">{title}</text>']
    y = TOP
    for label, values in groups.items():
        lines.append(f'<text x="{left - 10}" y="{y + len(values) * thick / 2 + 5:.1f}" text-anchor="end">{label}</text>')
        for name, value in values.items():
            length = max(1, value / most * wide)
            lines += [f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{thick - 2}" '
                      f'fill="{COLORS[names.index(name) % len(COLORS)]}"/>',
                      f'<text x="{left + length + 6:.1f}" y="{y + 12}">{value:.3g}{unit}</text>']
            y += thick
        y += gap
    if len(names) > 1:
        for place, name in enumerate(names):
            x, down = 20 + place % 4 * 170, y + place // 4 * 24
            lines += [f'<rect x="{x}" y="{down}" width="12" height="12" fill="{COLORS[place % len(COLORS)]}"/>',
                      f'<text x="{x + 18}" y="{down + 11}">{name}</text>']
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def spans(path, title, rows):
    """rows: {label: [(begin, end, name)]}, of one clock from 0 on."""
    left, wide, thick = 170, 520, 26
    most = max(end for each in rows.values() for _, end, _ in each)
    height = TOP + len(rows) * (thick + 8) + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
             'font-size="13">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             f'<text x="20" y="26" font-size="16">{title}</text>']
    for place, (label, each) in enumerate(rows.items()):
        y = TOP + place * (thick + 8)
        lines.append(f'<text x="{left - 10}" y="{y + 18}" text-anchor="end">{label}</text>')
        for begin, end, name in each:
            x, length = left + begin / most * wide, (end - begin) / most * wide
            lines += [f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{thick}" fill="{COLORS[place % 2]}" '
                      'stroke="#ffffff"/>',
                      f'<text x="{x + length / 2:.1f}" y="{y + 18}" text-anchor="middle" fill="#ffffff">{name}</text>']
    for tick in ticks_from_0(most):
        x = left + tick / most * wide
        lines.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{tick:g}</text>')
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def ticks_from_0(most):
    """Round numbers from 0 to `most`, about five."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(digit * power for digit in (1, 2, 5, 10) if most / (digit * power) <= 6)
    return [index * step for index in range(math.floor(most / step) + 1)]
