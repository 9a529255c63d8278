package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent/openai"
)

// TestKey is the key of the models of tests.
const TestKey = "sk-secret-0123456789"

// NewModel makes a model that has a key and no environment.
func NewModel(t testing.TB, opts ...openai.Option) *openai.Model {
	t.Helper()
	defaults := []openai.Option{openai.Env(nil), openai.Key(TestKey)}
	m, err := openai.New(append(defaults, opts...)...)
	require.NoError(t, err)
	t.Cleanup(m.CloseIdleConnections)
	return m
}
