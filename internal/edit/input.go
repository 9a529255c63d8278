package edit

import "fmt"

// Input are the edits of a call: one, several, or both.
type Input struct {
	Piece
	Edits []Piece `json:"edits,omitempty" jsonschema:"several edits, made in order; all or none"`
}

// Piece is one edit of a file.
type Piece struct {
	OldText    string  `json:"old_text,omitempty"`
	NewText    *string `json:"new_text,omitempty"` // one that is missing is not an empty one
	ReplaceAll bool    `json:"replace_all,omitempty"`
}

// isEmpty reports whether there is nothing in an edit.
func (p Piece) isEmpty() bool {
	return p.OldText == "" && (p.NewText == nil || *p.NewText == "") && !p.ReplaceAll
}

func (p Piece) edit() Edit {
	e := Edit{Old: p.OldText, All: p.ReplaceAll}
	if p.NewText != nil {
		e.New = *p.NewText
	}
	return e
}

// pieces returns the edits that are given, in order.
func (in Input) pieces() []Piece {
	if in.isEmpty() && len(in.Edits) > 0 {
		return in.Edits
	}
	return append([]Piece{in.Piece}, in.Edits...)
}

// All returns what to replace, in order.
func (in Input) All() []Edit {
	pieces := in.pieces()
	edits := make([]Edit, len(pieces))
	for i, p := range pieces {
		edits[i] = p.edit()
	}
	return edits
}

// Check refuses edits that cannot be meant. A new text that was forgotten would delete the
// old one.
func (in Input) Check() error {
	if err := Check(in.All()); err != nil {
		return err
	}
	for _, p := range in.pieces() {
		if p.NewText == nil {
			return fmt.Errorf("new_text is missing for old_text %.60q; to delete that, give an empty new_text", p.OldText)
		}
	}
	return nil
}
