#!/usr/bin/env python3
"""What a terminal showed, as an SVG: `script -qec 'pumex run -m MODEL' /dev/null | terminal.py COMMAND > terminal.svg`.

Knows what `pumex` writes: bold, dim and green text, lines that are written anew, and modes, which it leaves out.
"""
import html
import re
import sys
import textwrap

WIDTH, LINE, SIZE, PAD = 92, 19, 13.5, 18
COLOURS = {"prompt": "#8fd18a", "plain": "#e8e4df", "dim": "#98928a"}


def lines(text):
    """Pairs of style and text, a line each, as they stood at the end."""
    text = re.sub(r"\x1b\[\?\d+[hl]|\x1b\[2C", "", text).replace("\r\n", "\n")
    for line in text.split("\n"):
        line = re.split(r"\r(?:\x1b\[2K|\x1b\[K)?", line)
        line = "".join(part for part in line[-2:] if "loading" not in part) if len(line) > 1 else line[0]
        style = "prompt" if "\x1b[1;32m" in line else "dim" if "\x1b[2m" in line else "plain"
        yield style, re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()


def main():
    seen = [("prompt", f"$ {sys.argv[1]}")]
    started = False
    for style, text in lines(sys.stdin.read()):
        started |= style == "dim"
        if started and (text or seen[-1][1]):
            indent = re.match(r" *", text).group()
            seen += [(style, part) for part in textwrap.wrap(text, WIDTH, subsequent_indent=indent) or [""]]
    while not seen[-1][1] or seen[-1][1] == ">":
        seen.pop()
    width, height = round(WIDTH * SIZE * 0.6 + 2 * PAD), len(seen) * LINE + 2 * PAD + 22
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
          f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{SIZE}">')
    print(f'<rect width="{width}" height="{height}" rx="9" fill="#1d1b19"/>')
    for i, colour in enumerate(("#e0695a", "#e0b25a", "#7cb46b")):
        print(f'<circle cx="{PAD + 4 + 18 * i}" cy="20" r="5.5" fill="{colour}"/>')
    for i, (style, text) in enumerate(seen):
        y = PAD + 22 + LINE * (i + 1) - 5
        print(f'<text x="{PAD}" y="{y}" fill="{COLOURS[style]}" xml:space="preserve">{html.escape(text)}</text>')
    print("</svg>")


main()
