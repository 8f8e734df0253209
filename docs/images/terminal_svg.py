#!/usr/bin/env python3
"""Draws what a program prints on a terminal, as SVG: docs/images/terminal_svg.py TITLE <output >picture.svg

Knows the sixteen colours, bold, dim and italic. Light, and dark where the reader prefers it. Each run of text says how wide it is, so that
columns stay columns whatever the font.
"""
import re
import sys
import unicodedata
from xml.sax.saxutils import escape

CHAR, LINE, PAD, BAR = 7.8, 18, 18, 34
LIGHT = {"ground": "#ffffff", "bar": "#f2f4f7", "edge": "#d1d9e0", "text": "#1f2328", "dim": "#6a737d", "title": "#59636e",
         31: "#cf222e", 32: "#1a7f37", 33: "#8a5d00", 34: "#0969da", 35: "#8250df", 36: "#0b7285"}
DARK = {"ground": "#0d1117", "bar": "#161b22", "edge": "#30363d", "text": "#e6edf3", "dim": "#848d97", "title": "#9aa4af",
        31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#56d4dd"}


def columns(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def runs(line):
    """Pairs of classes and text."""
    style = set()
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            for code in (int(code or 0) for code in part[2:-1].split(";")):
                if code == 0:
                    style.clear()
                else:
                    style.add({1: "b", 2: "d", 3: "i"}.get(code, f"c{code}"))
        elif part:
            yield sorted(style), part


def rules(palette):
    out = [f".ground{{fill:{palette['ground']};stroke:{palette['edge']}}}.bar{{fill:{palette['bar']}}}",
           f".title{{fill:{palette['title']}}}text{{fill:{palette['text']}}}.d{{fill:{palette['dim']}}}"]
    out += [f".c{code}{{fill:{palette[code]}}}.d.c{code}{{fill:{palette[code]};fill-opacity:.75}}" for code in range(31, 37)]
    return "".join(out)


def main():
    title = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = sys.stdin.read().rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = max(map(columns, plain)) * CHAR + 2 * PAD
    height = len(lines) * LINE + BAR + 1.5 * PAD
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
           f'role="img" aria-labelledby="t"><title id="t">{escape(title)}</title>',
           "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
           f".b{{font-weight:700}}.i{{font-style:italic}}{rules(LIGHT)}@media(prefers-color-scheme:dark){{{rules(DARK)}}}</style>",
           f'<rect class="ground" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8"/>',
           f'<path class="bar" d="M1 {BAR}V9a8 8 0 0 1 8 -8H{width - 9:.0f}a8 8 0 0 1 8 8V{BAR}z"/>']
    out += [f'<circle cx="{18 + 18 * n}" cy="17" r="5.5" fill="{color}"/>' for n, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    out.append(f'<text class="title" x="{width / 2:.0f}" y="22" text-anchor="middle">{escape(title)}</text>')
    for n, line in enumerate(lines):
        x, y = 0, BAR + PAD + n * LINE + 9
        for style, text in runs(line):
            wide = columns(text)
            if text.strip():
                lead = columns(text) - columns(text.lstrip(" "))
                text = text.strip(" ")
                name = f' class="{" ".join(style)}"' if style else ""
                length = f' textLength="{columns(text) * CHAR:.1f}"' if len(text) > 1 else ""
                out.append(f'<text{name} x="{PAD + (x + lead) * CHAR:.1f}" y="{y}"{length} xml:space="preserve">{escape(text)}</text>')
            x += wide
    out.append("</svg>")
    print("\n".join(out))


main()
