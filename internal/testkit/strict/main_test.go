package strict_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/strict"
)

// rule is a body and the words of its refusal, which are empty if it is accepted.
type rule struct {
	body  string
	words string
	code  string
	param string
}

// check runs a table of rules against a provider's check.
func check(t *testing.T, rules map[string]rule, refused func(strict.Request) *strict.Refusal) {
	t.Helper()
	for name, tt := range rules {
		t.Run(name, func(t *testing.T) {
			require.True(t, json.Valid([]byte(tt.body)), tt.body)
			req, refusal := strict.Parse([]byte(tt.body), nil)
			require.Nil(t, refusal)
			refusal = refused(req)
			if tt.words == "" {
				require.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal, "it was taken")
			require.Contains(t, refusal.Error(), tt.words)
			require.Equal(t, tt.code, refusal.Code)
			require.Equal(t, tt.param, refusal.Param)
			require.GreaterOrEqual(t, refusal.Status, 400)
		})
	}
}

const (
	user   = `{"role":"user","content":"hi"}`
	called = `{"role":"assistant","content":null,"tool_calls":[{"id":"call00001","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	result = `{"role":"tool","tool_call_id":"call00001","content":"ok"}`
	said   = `{"role":"assistant","content":"fine"}`
)

// chat returns a body with the given messages and further fields.
func chat(messages []string, fields ...string) string {
	return body("gpt-4.1-mini", messages, fields...)
}

func body(model string, messages []string, fields ...string) string {
	all := append([]string{fmt.Sprintf(`"model":%q`, model), `"messages":[` + strings.Join(messages, ",") + `]`}, fields...)
	return "{" + strings.Join(all, ",") + "}"
}

// one returns a body with a single message of the user.
func one(fields ...string) string { return chat([]string{user}, fields...) }

// tool returns the field "tools" with one tool that has these parameters.
func tool(parameters string) string {
	return `"tools":[{"type":"function","function":{"name":"bash","parameters":` + parameters + `}}]`
}

// property returns the field "tools" with one tool that has one property.
func property(schema string) string {
	return tool(`{"type":"object","properties":{"a":` + schema + `}}`)
}

const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`
