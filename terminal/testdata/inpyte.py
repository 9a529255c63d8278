"""Prints what the terminal emulator pyte shows of standard input, with the lines that
have scrolled away. The arguments are the numbers of columns and rows."""

import sys

import pyte

columns, rows = int(sys.argv[1]), int(sys.argv[2])
screen = pyte.HistoryScreen(columns, rows, history=10000)
pyte.ByteStream(screen).feed(sys.stdin.buffer.read())
for line in screen.history.top:
    print("".join(line[x].data for x in range(columns)).rstrip())
for line in screen.display:
    print(line.rstrip())
