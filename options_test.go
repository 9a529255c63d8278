package pygent_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestToolCallsAreBoundedByTheStepsUnlessSet(t *testing.T) {
	tests := []struct {
		name string
		opts []pygent.RunOption
		want int
	}{
		{"by default", nil, 100},
		{"few steps", []pygent.RunOption{pygent.MaxSteps(2)}, 100},
		{"more steps", []pygent.RunOption{pygent.MaxSteps(25)}, 125},
		{"any number of steps", []pygent.RunOption{pygent.MaxSteps(math.MaxInt)}, 130},
		{"set", []pygent.RunOption{pygent.MaxToolCalls(7), pygent.MaxSteps(25)}, 7},
		{"none", []pygent.RunOption{pygent.MaxToolCalls(0)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []pygenttest.Reply
			for i := range 130 {
				calls = append(calls, pygenttest.Call("job_output", map[string]any{"id": fmt.Sprint(i)}))
			}
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(calls...), pygenttest.Text("done"), pygenttest.Text("done"), pygenttest.Text("done")))
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.want, result.ToolCalls)
		})
	}
}
