package web

// Patterns are the functions of the API.
func Patterns() (list []string) {
	for _, r := range routesOfAPI {
		list = append(list, r.pattern)
	}
	return list
}

// Document describes them.
func Document() []byte { return document }
