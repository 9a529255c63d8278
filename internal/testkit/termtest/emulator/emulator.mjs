// A terminal without a window: xterm.js, which VS Code shows terminals with. Each
// line of standard input is a request in JSON, and each gets a line in answer.
//
//   {"open": [80, 24]}     a new terminal in place of the last one, if there is one
//   {"write": BASE64}      what a program prints
//   {"resize": [80, 24]}   columns and rows
//   {"all": true}          every line, also those that have scrolled away
//
// The answer to the first three is what the screen shows now, and what the terminal
// sends to the program by itself, such as where the cursor is.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { argv, stdin, stdout } from 'node:process';

const [home] = argv.slice(2);
const require = createRequire(home + '/');
const { Terminal } = require('@xterm/headless');
const { UnicodeGraphemesAddon } = require('@xterm/addon-unicode-graphemes');

let term, replies, title, bells;

function open(cols, rows) {
  term?.dispose();
  term = new Terminal({ cols, rows, scrollback: 200000, allowProposedApi: true });
  term.loadAddon(new UnicodeGraphemesAddon());
  replies = '', title = '', bells = 0;
  term.onData((data) => { replies += data; });
  term.onTitleChange((now) => { title = now; });
  term.onBell(() => { bells++; });
}

// What xterm.js has no public name for.
const hidden = () => Boolean(term._core.coreService.isCursorHidden);

function screen() {
  const buffer = term.buffer.active;
  const lines = [];
  for (let y = 0; y < term.rows; y++) {
    lines.push(buffer.getLine(buffer.baseY + y)?.translateToString(true) ?? '');
  }
  const sent = replies;
  replies = '';
  return {
    lines, cols: term.cols, rows: term.rows, x: buffer.cursorX, y: buffer.cursorY,
    above: buffer.baseY, alternate: buffer.type === 'alternate', hidden: hidden(),
    paste: term.modes.bracketedPasteMode, mouse: term.modes.mouseTrackingMode !== 'none',
    replies: Buffer.from(sent).toString('base64'), title, bells,
  };
}

// style names how a cell looks, in the words of CSS: empty for plain text.
function style(cell) {
  const color = (rgb, palette, value) => rgb ? '#' + value.toString(16).padStart(6, '0') : palette ? String(value) : '';
  const parts = [];
  const fg = color(cell.isFgRGB(), cell.isFgPalette(), cell.getFgColor());
  const bg = color(cell.isBgRGB(), cell.isBgPalette(), cell.getBgColor());
  if (fg) parts.push('fg=' + fg);
  if (bg) parts.push('bg=' + bg);
  for (const [name, on] of [['bold', cell.isBold()], ['dim', cell.isDim()], ['italic', cell.isItalic()],
    ['underline', cell.isUnderline()], ['inverse', cell.isInverse()], ['strike', cell.isStrikethrough()]]) {
    if (on) parts.push(name);
  }
  return parts.join(' ');
}

function runs(line, wrapsOn) {
  const all = [];
  for (let x = 0; x < line.length; x++) {
    const cell = line.getCell(x);
    if (cell.getWidth() === 0) continue;
    const look = style(cell), text = cell.getChars() || ' ';
    if (all.length && all.at(-1).style === look) all.at(-1).text += text;
    else all.push({ style: look, text });
  }
  const last = all.at(-1);
  if (last && !last.style && !wrapsOn) {
    last.text = last.text.trimEnd();
    if (!last.text) all.pop();
  }
  return all;
}

// Lines that the terminal has wrapped are joined, as they are when a person copies
// them.
function everything() {
  const buffer = term.buffer.active;
  const lines = [];
  for (let y = 0; y < buffer.length; y++) {
    const line = buffer.getLine(y);
    const wrapsOn = buffer.getLine(y + 1)?.isWrapped ?? false;
    const now = { text: line.translateToString(!wrapsOn), runs: runs(line, wrapsOn) };
    if (line.isWrapped && lines.length) {
      const last = lines.at(-1);
      last.text += now.text;
      last.runs.push(...now.runs);
    } else {
      lines.push(now);
    }
  }
  return { all: lines };
}

const answer = (what) => stdout.write(JSON.stringify(what) + '\n');

for await (const line of createInterface({ input: stdin })) {
  const request = JSON.parse(line);
  if (request.write !== undefined) {
    await new Promise((done) => term.write(Buffer.from(request.write, 'base64'), done));
    answer(screen());
  } else if (request.open) {
    open(...request.open);
    answer(screen());
  } else if (request.resize) {
    term.resize(...request.resize);
    answer(screen());
  } else {
    answer(everything());
  }
}
