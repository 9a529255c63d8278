package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/sandbox"
)

// pullEventEvery is how often the progress of a pull is told.
const pullEventEvery = 250 * time.Millisecond

// stalledPull is how long a pull may tell of no progress.
const stalledPull = 5 * time.Minute

// findImage describes the image, which it pulls when the engine does not have
// it. A pull that failed is not tried again by commands: whoever pulls the image by hand
// is served, and nobody waits for the same failure at each of them.
func (c *commander) findImage(ctx context.Context) (image.InspectResponse, error) {
	ref := c.spec.config.Image
	info, err := inspectImage(ctx, c.engine, ref)
	if errdefs.IsNotFound(err) {
		if c.failed != nil {
			return info, c.failed
		}
		c.pulls()
		c.news.pause()
		emit := c.emit
		if c.tried {
			emit = func(e sandbox.Event) { e.Text += " again"; c.emit(e) }
		}
		c.tried = true
		if err := pullImage(ctx, c.engine, ref, emit); err != nil {
			if !passing(err) {
				c.failed = err
			}
			return info, err
		}
		c.news.await()
		info, err = inspectImage(ctx, c.engine, ref)
	}
	if err != nil {
		return info, fmt.Errorf("look at image %q: %w", ref, err)
	}
	return info, nil
}

func inspectImage(ctx context.Context, engine *client.Client, ref string) (info image.InspectResponse, err error) {
	err = ask(ctx, engine, func(ctx context.Context) error {
		info, err = engine.ImageInspect(ctx, ref)
		return err
	})
	return info, err
}

// pullImage pulls an image, telling its progress.
func pullImage(ctx context.Context, engine *client.Client, ref string, emit func(sandbox.Event)) error {
	emit(sandbox.Event{Kind: sandbox.Pull, Text: "pulling " + ref})
	pull, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stalledPull, func() { cancel(errEngineSilent) })
	defer stalled.Stop()
	body, err := engine.ImagePull(pull, ref, image.PullOptions{})
	if err == nil {
		err = followPull(pullBody{body, func() { stalled.Reset(stalledPull) }}, ref, emit)
		body.Close()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case pull.Err() != nil:
		err = fmt.Errorf("no progress for %s", stalledPull)
	case client.IsErrConnectionFailed(err):
		return err
	}
	return fmt.Errorf("pull image %q: %w; choose another one, or get it with \"docker pull %s\" or \"docker load\"", ref, err, ref)
}

// pullBody tells of every read of an engine's answer.
type pullBody struct {
	io.Reader
	tell func()
}

// Read implements io.Reader.
func (w pullBody) Read(p []byte) (int, error) {
	w.tell()
	return w.Reader.Read(p)
}

// followPull reads the engine's progress to its end. An error of the pull is
// in there: its status was sent before the pull began.
func followPull(body io.Reader, ref string, emit func(sandbox.Event)) error {
	type layer struct{ current, total int64 }
	layers := map[string]layer{}
	var last time.Time
	for dec := json.NewDecoder(body); ; {
		var line struct {
			ID             string
			Status         string
			Error          string
			ProgressDetail struct{ Current, Total int64 }
		}
		if err := dec.Decode(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
		if line.Status != "Downloading" || line.ProgressDetail.Total <= 0 {
			continue
		}
		layers[line.ID] = layer{line.ProgressDetail.Current, line.ProgressDetail.Total}
		if time.Since(last) < pullEventEvery {
			continue
		}
		event := sandbox.Event{Kind: sandbox.Pull, Text: "pulling " + ref}
		for _, l := range layers {
			event.Current += l.current
			event.Total += l.total
		}
		if event.Current > 0 && event.Current < event.Total { // else it says no more than that it pulls
			last = time.Now()
			emit(event)
		}
	}
}
