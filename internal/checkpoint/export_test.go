package checkpoint

// Miss has the watch miss what was written since the last look.
func (b *Book) Miss() { b.others.missed = 2 }

// Hear takes note of what the watch has told so far, or has missed.
func (b *Book) Hear() { b.others.look() }
