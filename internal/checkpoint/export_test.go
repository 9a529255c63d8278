package checkpoint

// Miss has the watch miss what was written since the last look.
func (b *Book) Miss() { b.others.missed = 2 }
