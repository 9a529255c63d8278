package pygenttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
)

// frame is one event of a stream.
type frame struct {
	name  string // the event's name; empty in chat completions
	field string // what its data is called on the wire; empty for "data"
	data  any    // encoded as JSON; a string is sent as it is
	piece bool   // whether CutAfter and FailAfter count it
	tail  bool   // whether it comes after the whole message
	waits bool   // whether it is sent after the pause between pieces
}

// rawFrames returns frames with exactly this data.
func rawFrames(events []string) []frame {
	out := make([]frame, len(events))
	for i, e := range events {
		out[i] = frame{data: e, piece: true, waits: i > 0}
	}
	return out
}

// cutFrames returns the frames up to the n-th piece, or all before the tail if
// there are fewer pieces.
func cutFrames(frames []frame, n int) []frame {
	if n <= 0 {
		return nil
	}
	for i, f := range frames {
		if f.tail {
			return frames[:i]
		}
		if f.piece {
			n--
		}
		if n == 0 {
			return frames[:i+1]
		}
	}
	return frames
}

// encodeFrames returns the frames with their data as it is sent.
func encodeFrames(frames []frame) ([]frame, error) {
	out := make([]frame, len(frames))
	for i, f := range frames {
		if _, ok := f.data.(string); !ok {
			b, err := json.Marshal(f.data)
			if err != nil {
				return nil, err
			}
			f.data = string(b)
		}
		out[i] = f
	}
	return out, nil
}

// write sends an encoded frame. The flush that follows notices if the client is
// gone.
func (f frame) write(w io.Writer) {
	if f.name != "" {
		_, _ = fmt.Fprintf(w, "event: %s\n", f.name)
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n\n", cmp.Or(f.field, "data"), f.data)
}
