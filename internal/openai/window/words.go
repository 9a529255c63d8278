package window

import "fmt"

// Share says of what a number of tokens is a part: of a window, or, if that is 0 because
// nobody told it, of a request that the server refused.
func Share(window int64) string {
	if window == 0 {
		return "of what the server refused as too long"
	}
	return fmt.Sprintf("of a window of %d", window)
}

// Holds says how much a window holds, or that this is not known.
func Holds(window int64) string {
	if window == 0 {
		return "the server has refused about as many as too long"
	}
	return fmt.Sprintf("the model's window holds %d", window)
}
