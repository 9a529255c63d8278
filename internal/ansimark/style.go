package ansimark

import (
	"fmt"
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

// shade is a role's colour on a light or a dark background.
type shade struct {
	rgb    uint32
	sixten string // SGR parameter among the terminal's own colours
}

// shades are the colours of the roles, on a light and on a dark background. Each has
// a contrast of at least 4.5 to white or to black. Of the sixteen colours, only those
// are used that terminals show readably on that background; muted is faint.
var shades = [roles][2]shade{
	roleMuted:   {{0x5e5c55, "2"}, {0xa8a69d, "2"}},
	roleAccent:  {{0x0a6b5c, "36"}, {0x62c9b4, "36"}},
	roleCode:    {{0x1c56a8, "34"}, {0x8dbbf3, "94"}},
	roleKeyword: {{0x8c3a96, "35"}, {0xd7a0e0, "95"}},
	roleString:  {{0x2f6b1f, "32"}, {0x9ecf86, "32"}},
	roleNumber:  {{0x9a4a00, "31"}, {0xe6ab6c, "33"}},
	roleName:    {{0x1c56a8, "34"}, {0x8dbbf3, "94"}},
	roleComment: {{0x5e5c55, "2"}, {0xa8a69d, "2"}},
	roleAdded:   {{0x1b7038, "32"}, {0x74c78d, "32"}},
	roleRemoved: {{0xb3261e, "31"}, {0xff9087, "31"}},
}

// parameters returns the SGR parameters of the roles' colours.
func parameters(o Options) (all [roles]string) {
	background := 1
	if o.Light {
		background = 0
	}
	for r := roleText + 1; r < roles; r++ {
		switch s := shades[r][background]; o.Profile {
		case ANSI16:
			all[r] = s.sixten
		case ANSI256:
			all[r] = fmt.Sprintf("38;5;%d", nearest(s.rgb))
		case TrueColor:
			all[r] = fmt.Sprintf("38;2;%d;%d;%d", s.rgb>>16, s.rgb>>8&0xff, s.rgb&0xff)
		}
	}
	return all
}

// nearest returns the colour of the palette of 256 that is most like a given one,
// among those that look the same everywhere: the cube and the greys.
func nearest(rgb uint32) int {
	parts := [3]int{int(rgb >> 16), int(rgb >> 8 & 0xff), int(rgb & 0xff)}
	cube, cubeAway := 16, 0
	for i, weight := range [3]int{36, 6, 1} {
		best, away := 0, 256
		for level, value := range [6]int{0, 95, 135, 175, 215, 255} {
			if d := max(parts[i]-value, value-parts[i]); d < away {
				best, away = level, d
			}
		}
		cube += weight * best
		cubeAway += away * away
	}
	grey := min(23, max(0, (parts[0]+parts[1]+parts[2])/3-3)/10)
	greyAway := 0
	for _, p := range parts {
		greyAway += (p - 8 - 10*grey) * (p - 8 - 10*grey)
	}
	if greyAway < cubeAway {
		return 232 + grey
	}
	return cube
}

// sequence returns the SGR sequence that switches a style on.
func (r *renderer) sequence(s style) string {
	parts := make([]string, 0, 5)
	for i, on := range [...]bool{1: s.bold, 3: s.italic, 4: s.underline, 9: s.struck} {
		if on {
			parts = append(parts, strconv.Itoa(i))
		}
	}
	if p := r.colours[s.role]; p != "" {
		parts = append(parts, p)
	}
	return "\x1b[" + strings.Join(parts, ";") + "m"
}

// reset is the SGR sequence that switches everything off.
const reset = "\x1b[0m"
