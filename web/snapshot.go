package web

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/snapshot"
)

// postSave saves a session in a directory of the machine of the server.
func (s *Server) postSave(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	if !s.opts.allowed().Snapshots {
		return nil, errNoRight
	}
	var in struct {
		Dir     string `json:"dir"`
		Replace bool   `json:"replace"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	dir, err := directory(in.Dir)
	if err != nil {
		return nil, err
	}
	var opts []snapshot.SaveOption
	if in.Replace {
		opts = append(opts, snapshot.Replace())
	}
	saved, err := snapshot.Save(c.Context(), one.agent, dir, opts...)
	switch {
	case errors.Is(err, snapshot.ErrExists):
		return nil, fail(http.StatusConflict, "exists", oneLine(err.Error()))
	case errors.Is(err, pygent.ErrAgentBusy):
		return nil, fail(http.StatusConflict, "busy", "the agent is working; stop it first")
	case err != nil:
		return nil, err
	}
	count, bytes := saved.Files()
	left := []string{}
	for _, name := range saved.LeftOut() {
		left = append(left, oneLine(name))
	}
	return map[string]any{"dir": saved.Dir(), "files": count, "bytes": bytes, "left_out": left}, nil
}

// directory returns a directory of this machine that a person has named. What is
// relative would be so to the directory of the server, which the person does not see.
func directory(name string) (string, error) {
	name, err := pathname.Host().Read(name)
	if err != nil {
		return "", fail(http.StatusBadRequest, "bad_directory", oneLine(err.Error()))
	}
	if !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", fail(http.StatusBadRequest, "bad_directory", "give a path that starts with / or ~/")
	}
	return filepath.Clean(name), nil
}
