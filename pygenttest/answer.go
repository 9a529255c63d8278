package pygenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/x/pygent"
)

// wire is a format that a response is written in.
type wire interface {
	// body returns the whole answer.
	body(*pygent.ChatResponse) (object, error)
	// frames returns the events of a stream.
	frames(*pygent.ChatResponse) []frame
	// failedBody returns an answer that reports an error with status 200.
	failedBody(f *fault) object
	// failure returns the event that reports an error after n other events.
	failure(f *fault, n int) frame
}

// answer is a reply that is being sent to a client.
type answer struct {
	reply Reply
	w     http.ResponseWriter
}

// fail answers with an error's status, or closes the connection if it has none.
func (a *answer) fail(ctx context.Context, err error) {
	var apiErr *pygent.APIError
	switch {
	case ctx.Err() != nil:
		abort()
	case !errors.As(err, &apiErr):
		apiErr = &pygent.APIError{Status: http.StatusInternalServerError, Code: "server_error", Message: err.Error()}
	case !validStatus(apiErr.Status):
		abort()
	}
	writeError(a.w, apiErr, a.reply.fault)
}

// raw sends the bytes of a fault.
func (a *answer) raw(ctx context.Context, format wire) {
	f := a.reply.fault
	a.w.Header().Set("Content-Type", f.contentType)
	if f.events != nil {
		a.send(ctx, f.status, a.broken(format, rawFrames(f.events)))
		return
	}
	if f.breaks {
		a.cutBody(f.status, []byte(f.body))
	}
	a.w.WriteHeader(f.status)
	_, _ = io.WriteString(a.w, f.body) // the client may be gone
}

// plain sends the whole answer in one body.
func (a *answer) plain(format wire, resp *pygent.ChatResponse) {
	body, err := format.body(resp)
	f := a.reply.fault
	switch {
	case err != nil:
		a.unencodable(err)
		return
	case f != nil && f.breaks && f.event != nil:
		body = format.failedBody(f)
	}
	if f != nil && f.breaks && f.event == nil {
		b, err := json.Marshal(body)
		if err != nil || f.after <= 0 {
			abort()
		}
		a.w.Header().Set("Content-Type", "application/json")
		a.cutBody(http.StatusOK, b)
	}
	writeJSON(a.w, http.StatusOK, body)
}

// unencodable answers if a reply cannot be encoded as JSON.
func (a *answer) unencodable(err error) {
	writeError(a.w, &pygent.APIError{Status: http.StatusUnprocessableEntity, Message: err.Error()}, nil)
}

// cutBody sends half of the body and closes the connection.
func (a *answer) cutBody(status int, body []byte) {
	a.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	a.w.WriteHeader(status)
	_, _ = a.w.Write(body[:len(body)/2])
	_ = http.NewResponseController(a.w).Flush()
	abort()
}

// stream sends the answer as events.
func (a *answer) stream(ctx context.Context, format wire, resp *pygent.ChatResponse) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.send(ctx, http.StatusOK, a.broken(format, format.frames(resp)))
}

// broken returns the frames to send. Of an answer that breaks off these are the
// first ones and, if it has one, the error event.
func (a *answer) broken(format wire, frames []frame) []frame {
	f := a.reply.fault
	if f == nil || !f.breaks {
		return frames
	}
	frames = slices.Clone(cutFrames(frames, f.after))
	if f.event != nil {
		last := format.failure(f, len(frames))
		last.waits = len(frames) > 1
		frames = append(frames, last)
	}
	return frames
}

// send writes the frames, with a pause before those that wait. It closes the
// connection if the reply is cut.
func (a *answer) send(ctx context.Context, status int, frames []frame) {
	f := a.reply.fault
	cut := f != nil && f.breaks && f.event == nil
	if cut && len(frames) == 0 {
		abort()
	}
	frames, err := encodeFrames(frames)
	if err != nil {
		a.unencodable(err)
		return
	}
	a.w.WriteHeader(status)
	out := http.NewResponseController(a.w)
	for _, frame := range frames {
		if frame.waits && a.reply.chunk.wait(ctx) != nil {
			abort()
		}
		if slices.Contains(a.reply.quirks, QuirkKeepAlive) {
			_, _ = io.WriteString(a.w, ": keep-alive\n\n")
		}
		frame.write(a.w)
		if out.Flush() != nil {
			abort()
		}
		for frame.piece && !frame.tail && slices.Contains(a.reply.quirks, QuirkEndless) {
			if frame.write(a.w); out.Flush() != nil || ctx.Err() != nil {
				abort()
			}
		}
	}
	if cut {
		abort()
	}
	for slices.Contains(a.reply.quirks, QuirkStaysOpen) {
		if (pause{delay: time.Second}).wait(ctx) != nil {
			abort()
		}
		_, _ = io.WriteString(a.w, ": still here\n\n")
		if out.Flush() != nil {
			abort()
		}
	}
}

// abort closes the connection, as net/http defines it for handlers.
func abort() { panic(http.ErrAbortHandler) }
