package faces

import "strings"

// Running begins the words about a tool or a command, which may need the container.
const Running = "Running "

// WithStart adds to what goes on that the container has to start first, if it is starting
// and what goes on may need it.
func WithStart(words string, starting bool) string {
	if starting && strings.HasPrefix(words, Running) {
		return words + " · the container is starting"
	}
	return words
}
