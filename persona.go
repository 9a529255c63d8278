package pygent

import "cmp"

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
	c, _ := environment() // which says nothing if something is wrong with it
	return c.Persona.orDefault()
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
