package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/cmd/internal/cli"
	"github.com/x/pygent/internal/bridge"
)

func TestThePageHasAllCommandsFlagsAndVariables(t *testing.T) {
	t.Parallel()
	d, err := cli.Describe()
	require.NoError(t, err)
	var text strings.Builder
	write(&text, d)
	page := strings.NewReplacer(`\-`, "-", `\(dq`, `"`).Replace(text.String())
	has := func(text string) bool { return strings.Contains(page, text) }
	for _, command := range cli.Commands(d.Command) {
		require.True(t, has(`.SS "`+cli.Synopsis(command)+`"`), command.Name)
		for _, flag := range command.Flags {
			require.Equal(t, !flag.Hidden, has(`.B "`+cli.FlagSynopsis(flag)+`"`), flag.Name)
		}
	}
	for flag, variable := range d.Variables {
		require.True(t, has(`.B "`+flag), flag)
		require.True(t, has(`.B "`+variable+`"`), variable)
	}
	for _, s := range bridge.Settings() {
		require.True(t, s.Env == "" || has(`.B "`+s.Env+`"`), s.Env)
	}
	for _, c := range d.ExitCodes {
		require.True(t, has(c.Meaning), c.Code)
	}
}

func TestTextIsNoMacro(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	page{&text}.text(".so /etc/passwd\n'br\na\\fBb")
	require.Equal(t, "\\&.so /etc/passwd\n\\&'br\na\\efBb\n", text.String())
}
