package pygent

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
)

// pullEventEvery is how often the progress of a pull is told.
const pullEventEvery = 250 * time.Millisecond

// findImage describes an image, which it pulls when the engine does not have it.
func findImage(ctx context.Context, engine *client.Client, ref string, emit func(RuntimeEvent)) (image.InspectResponse, error) {
	info, err := engine.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		if err := pullImage(ctx, engine, ref, emit); err != nil {
			return info, err
		}
		info, err = engine.ImageInspect(ctx, ref)
	}
	if err != nil {
		return info, fmt.Errorf("look at image %q: %w", ref, err)
	}
	return info, nil
}

// pullImage pulls an image, telling its progress.
func pullImage(ctx context.Context, engine *client.Client, ref string, emit func(RuntimeEvent)) error {
	emit(RuntimeEvent{Kind: RuntimePull, Text: "pulling " + ref})
	body, err := engine.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		err = followPull(body, ref, emit)
		body.Close()
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("pull image %q: %w; pull it by hand with \"docker pull %s\", choose another one with --image, or run on this machine with --no-docker", ref, err, ref)
}

// followPull reads the engine's progress to its end. An error of the pull is
// in there: its status was sent before the pull began.
func followPull(body io.Reader, ref string, emit func(RuntimeEvent)) error {
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
		last = time.Now()
		event := RuntimeEvent{Kind: RuntimePull, Text: "pulling " + ref}
		for _, l := range layers {
			event.Current += l.current
			event.Total += l.total
		}
		emit(event)
	}
}
