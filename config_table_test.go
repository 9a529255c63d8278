package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestTablesAreReadBesideFiles(t *testing.T) {
	t.Parallel()
	table := func(project bool, name string) pygent.ConfigTable {
		return pygent.ConfigTable{Path: name, Project: project, Values: map[string]any{"persona_name": name}}
	}
	s := newSources(t)
	s.project(`persona_name = "the project's file"`)
	s.Tables = []pygent.ConfigTable{table(true, "the project's script")}
	require.Equal(t, "the project's script", s.load().Persona.Name)
	s.file(`persona_name = "named"`)
	require.Equal(t, "named", s.load().Persona.Name)
	s.Tables = append(s.Tables, table(false, "the user's script"))
	require.Equal(t, "the user's script", s.load().Persona.Name)
	s.env["PYGENT_PERSONA_NAME"] = "environment"
	require.Equal(t, "environment", s.load().Persona.Name)
}

func TestTablesOfAProjectHaveItsRights(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Tables = []pygent.ConfigTable{{
		Path: "config.star", Flag: "--script", Project: true,
		Values: map[string]any{"model": "m", "banned_apps": []any{"curl"}, "limits": map[string]any{"max_steps": int64(2)}, "container": map[string]any{"image": "i"}},
		Lines:  map[string]int{"model": 7, "container.image": 3},
	}}
	bad := s.fault()
	require.Equal(t, "config.star", bad.Source)
	require.Equal(t, 3, bad.Line)
	require.ErrorContains(t, bad, "a file found in the working directory may not set container.image (line 3), model (line 7): ")
	require.ErrorContains(t, bad, "name it with --script config.star, or set these in ~/.pygent.toml")

	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": int64(2)}, "banned_apps": []any{"curl"}}
	s.env["PYGENT_BANNED_APPS"] = "wget"
	c := s.load()
	require.Equal(t, 2, c.Limits.MaxSteps)
	require.ElementsMatch(t, []string{"curl", "wget"}, c.BannedApps)
	require.Empty(t, c.Warnings)

	s.env["PYGENT_MAX_STEPS"] = "1"
	c = s.load()
	require.Equal(t, 1, c.Limits.MaxSteps)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "config.star:1:1: limits.max_steps = 2 has no effect")
	require.Contains(t, c.Warnings[0], "name it with --script")

	s.Tables[0].Project = false
	delete(s.env, "PYGENT_MAX_STEPS")
	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": int64(2000)}, "model": "m"}
	require.Equal(t, 2000, s.load().Limits.MaxSteps)
	require.Equal(t, "m", s.load().Model)
}

func TestFaultsOfTablesSayWhere(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Tables = []pygent.ConfigTable{{Path: "own.star", Values: map[string]any{"modle": "m"}, Lines: map[string]int{"modle": 4}}}
	require.EqualError(t, s.fault(), "own.star:4:1: modle: unknown key, did you mean model?")
	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": "many"}}
	require.ErrorContains(t, s.fault(), "own.star:1:1: limits.max_steps: ")
}
