package pygent

import (
	"cmp"
	"os"
)

// Persona is who an agent is: the name it goes by, and a sentence that says
// what it is like. Both come first in the system prompt.
type Persona struct {
	Name        string `json:"name" toml:"name"`
	Description string `json:"description" toml:"description"`
}

// What an agent is called and what it is like when nobody says otherwise.
const (
	defaultPersonaName        = "Pygent"
	defaultPersonaDescription = "a careful, capable coding assistant"
)

// DefaultPersona returns the persona of an agent that is given none: the one
// that PYGENT_PERSONA_NAME and PYGENT_PERSONA describe, or Pygent, a careful,
// capable coding assistant, for what they leave out.
func DefaultPersona() Persona {
	p := Persona{Name: os.Getenv("PYGENT_PERSONA_NAME"), Description: os.Getenv("PYGENT_PERSONA")}
	return p.orDefault()
}

// orDefault fills what is empty with the built-in persona. No persona at all
// is the default one.
func (p *Persona) orDefault() Persona {
	if p == nil {
		return DefaultPersona()
	}
	return Persona{
		Name:        cmp.Or(p.Name, defaultPersonaName),
		Description: cmp.Or(p.Description, defaultPersonaDescription),
	}
}
