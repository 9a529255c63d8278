// Package termtest runs programs at a terminal in tests, and tells what a person
// sees there. The terminal is a pseudo-terminal of the kernel, and xterm.js, which
// shows the terminals of VS Code, draws its screen; scripts/xterm.sh installs it.
//
// On systems other than Linux it only draws pictures.
package termtest
