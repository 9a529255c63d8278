package openai

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

const roleSystem = "system"

// systemRole matches how servers name the role in a refusal. docs/providers.md has their words.
var systemRole = regexp.MustCompile(`(?i)\bsystem\b['"]? (role|message|prompt|instruction)|role:? ['"]?system\b|['"]system['"]|developer instruction`)

// refusesSystem reports whether the error says that the model has no system role, which
// the first message has.
func (c *call) refusesSystem(api *Error) bool {
	if c.inResponses() || c.req.Messages.Len() == 0 || c.req.Messages.At(0).role != roleSystem {
		return false
	}
	message := strings.ToLower(api.Message)
	return systemRole.MatchString(message) && (notTaken(api) || strings.Contains(message, "not enabled"))
}

// merged are messages whose system message is the beginning of the user's first one.
type merged struct {
	Messages
	first *Message // takes the place of those before skip, and of that one
	skip  int
}

// Len implements [Messages].
func (m merged) Len() int { return m.Messages.Len() - m.skip }

// At implements [Messages].
func (m merged) At(i int) *Message {
	if i == 0 {
		return m.first
	}
	return m.Messages.At(i + m.skip)
}

// withoutSystem returns messages for a model without a system role. What the system message
// says stands in the user's first message, or in one of its own if the user's does not follow.
func withoutSystem(all Messages) Messages {
	if all.Len() == 0 || all.At(0).role != roleSystem {
		return all
	}
	system := json.RawMessage(all.At(0).content)
	fields := map[string]json.RawMessage{"role": json.RawMessage(`"user"`), "content": system}
	skip := 0
	if all.Len() > 1 && all.At(1).role == roleUser {
		skip = 1
		for name, value := range jsonobj.Members(all.At(1).json) {
			fields[string(name)] = value
		}
		fields["content"] = joined(system, all.At(1).content)
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return all // the JSON was valid before
	}
	return merged{all, NewMessage(encoded), skip}
}

// joined returns one content, of text or parts, that has two.
func joined(first, second json.RawMessage) json.RawMessage {
	var a, b string
	if json.Unmarshal(first, &a) == nil && json.Unmarshal(second, &b) == nil {
		return encode(a + "\n\n" + b)
	}
	return encode(append(parts(first), parts(second)...))
}

// parts returns a content as a list of parts.
func parts(content json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(content, &list) == nil {
		return list
	}
	return []json.RawMessage{encode(map[string]json.RawMessage{"type": json.RawMessage(`"text"`), "text": content})}
}

// encode encodes what is known to have an encoding.
func encode(v any) json.RawMessage {
	encoded, _ := json.Marshal(v)
	return encoded
}
