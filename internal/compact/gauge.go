package compact

import "math"

// bytesOfToken is how many bytes of JSON make a token of English text and of
// code, about.
const bytesOfToken = 4

// The bounds of what is believed of a server: how many bytes make a token of its
// model. Long runs of blanks make more, and rare languages fewer.
const (
	fewestBytes = 1
	mostBytes   = 12
)

// enoughToTell is how many tokens a conversation must have, as estimated, before a
// count far below that is suspicious.
const enoughToTell = 4_096

// Gauge tells how many tokens a conversation has. It estimates by the weight, in
// bytes, and calibrates itself by what the server reports. The zero Gauge is not
// calibrated.
type Gauge struct {
	weight int
	tokens int64
}

// Report takes what a server says of a conversation of a weight. cut reports that
// the server has counted far too little: it may have cut off the beginning. Counts
// that cannot be right are not taken.
func (g *Gauge) Report(weight int, tokens int64) (cut bool) {
	if weight <= 0 || tokens <= 0 {
		return false
	}
	per := float64(weight) / float64(tokens)
	if per > mostBytes {
		return weight/bytesOfToken > enoughToTell
	}
	if per >= fewestBytes {
		g.weight, g.tokens = weight, tokens
	}
	return false
}

// Calibrated reports whether a server's count was taken.
func (g Gauge) Calibrated() bool { return g.tokens > 0 }

// Tokens estimates the tokens of a weight.
func (g Gauge) Tokens(weight int) int64 {
	if !g.Calibrated() {
		return int64(weight / bytesOfToken)
	}
	return int64(math.Ceil(float64(weight) * float64(g.tokens) / float64(g.weight)))
}

// Weight is the inverse of Tokens.
func (g Gauge) Weight(tokens int64) int {
	if !g.Calibrated() {
		return int(tokens * bytesOfToken)
	}
	return int(float64(tokens) * float64(g.weight) / float64(g.tokens))
}

// Image estimates the weight of an image by its pixels, as providers count its
// tokens. Without pixels it is taken for a large one.
func Image(width, height int) int {
	const (
		pixelsOfToken = 750        // Anthropic's; OpenAI counts fewer tokens
		fewest, most  = 260, 1_600 // Gemini and OpenAI count 258 and 255 for a small one
	)
	if width <= 0 || height <= 0 || width > 1<<16 || height > 1<<16 {
		return most * bytesOfToken
	}
	return min(max(width*height/pixelsOfToken, fewest), most) * bytesOfToken
}

// Media estimates the weight of a file or a recording by its URL: providers count
// tokens by the pages and seconds, and not by the bytes.
func Media(kind string, url int) int {
	const (
		bytesOfPage  = 40 << 10
		tokensOfPage = 2_000
		bytesOfSound = 1_000 // of a token: 10 to 32 tokens are a second
	)
	bytes := url / 4 * 3
	if kind == "audio" {
		return (bytes/bytesOfSound + 1) * bytesOfToken
	}
	return (bytes/bytesOfPage + 1) * tokensOfPage * bytesOfToken
}
