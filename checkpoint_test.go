package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestAgentsWithoutCheckpointsSaySo(t *testing.T) {
	t.Parallel()
	agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithModel(pygenttest.NewScriptedModel()))
	require.NoError(t, err)
	defer agent.Close()
	require.Empty(t, agent.Checkpoints())
	for _, err := range []error{
		errOf(agent.Undo(t.Context(), 1)), errOf(agent.Redo(t.Context())), errOf(agent.Restore(t.Context(), 1)),
		errOf(agent.CheckpointBefore(1)),
	} {
		require.ErrorIs(t, err, pygent.ErrNoCheckpoints)
	}
}

func TestNotesOfARestore(t *testing.T) {
	t.Parallel()
	var many []pygent.KeptFile
	for range 30 {
		many = append(many, pygent.KeptFile{Path: "f"})
	}
	for name, tt := range map[string]struct {
		done pygent.Restored
		want []string
	}{
		"nothing":  {pygent.Restored{}, nil},
		"the user": {pygent.Restored{Kept: []pygent.KeptFile{{Path: "a\x1b[2J\nb"}}}, []string{"kept a␛[2J b: you have changed it since"}},
		"a reason": {pygent.Restored{Kept: []pygent.KeptFile{{Path: "a", Why: "it is a directory", Aside: "a.1"}}}, []string{"kept a: it is a directory; what was there is in a.1"}},
		"left out": {pygent.Restored{To: pygent.Checkpoint{LeftOut: []string{"a: ignored", "b: ignored"}, MoreLeftOut: 5}}, []string{"left alone, because checkpoints exclude it: a: ignored, b: ignored and 5 others"}},
		"more":     {pygent.Restored{To: pygent.Checkpoint{LeftOut: []string{"a", "b", "c", "d"}}}, []string{"left alone, because checkpoints exclude it: a, b, c and 1 other"}},
		"no files": {pygent.Restored{NoFiles: "why", To: pygent.Checkpoint{LeftOut: []string{"a"}}}, nil},
		"attached": {pygent.Restored{Message: &pygent.Message{Parts: []pygent.Part{
			{Text: "look at @b.png"}, {ImageURL: "data:image/png;base64,AAAA", FileName: "a\x1b.png"}, {ImageURL: "data:image/png;base64,AAAA", FileName: "b.png"}, {AudioURL: "x"},
		}}}, []string{"attach these again, they were sent with the message: a␛.png, an attachment"}},
		"mentioned": {pygent.Restored{Message: &pygent.Message{Parts: []pygent.Part{
			{Text: "look at @main.go"}, {Text: "package main", FileName: "main.go"},
		}}}, nil},
		"jobs": {pygent.Restored{Jobs: 2}, []string{"2 commands still running in the background (a restore does not stop them): /jobs"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.done.Notes()) })
	}
	notes := pygent.Restored{Kept: many}.Notes()
	require.Len(t, notes, 21)
	require.Equal(t, "10 more files kept", notes[20])
}
