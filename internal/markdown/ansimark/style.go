package ansimark

import (
	"strconv"
	"strings"
)

// style is how a piece of text looks.
type style struct {
	role                            role
	bold, italic, underline, struck bool
}

// role is what a text's colour says about it.
type role int

const (
	roleText role = iota // the terminal's own colour
	roleMuted
	roleAccent
	roleCode
	roleKeyword
	roleString
	roleNumber
	roleName
	roleComment
	roleAdded
	roleRemoved
	roles // their number
)

// colours are the SGR parameters of the roles. They are among the terminal's own
// sixteen colours, and are those that are read on light and on dark backgrounds with
// the palettes that terminals come with: yellow is lost on white, and blue on black,
// but bright blue is not. Muted is faint.
var colours = [roles]string{
	roleMuted:   "2",
	roleAccent:  "36",
	roleCode:    "94",
	roleKeyword: "35",
	roleString:  "32",
	roleNumber:  "36",
	roleName:    "94",
	roleComment: "2",
	roleAdded:   "32",
	roleRemoved: "31",
}

// sequence returns the SGR sequence that switches a style on.
func sequence(s style) string {
	parts := make([]string, 0, 5)
	for i, on := range [...]bool{1: s.bold, 3: s.italic, 4: s.underline, 9: s.struck} {
		if on {
			parts = append(parts, strconv.Itoa(i))
		}
	}
	if p := colours[s.role]; p != "" {
		parts = append(parts, p)
	}
	return "\x1b[" + strings.Join(parts, ";") + "m"
}

// reset is the SGR sequence that switches everything off.
const reset = "\x1b[0m"
