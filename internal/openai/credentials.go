package openai

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// hasCredentials reports whether a header that the caller set authenticates.
func (c *Config) hasCredentials() bool {
	return c.hasHeader("Authorization") || c.keyHeader()
}

// keyHeader reports whether a header that the caller set is an API key. A
// bearer token beside it would be a second credential, perhaps meant for
// another host.
func (c *Config) keyHeader() bool { return c.hasHeader("Api-Key") || c.hasHeader("X-Api-Key") }

func (c *Config) hasHeader(canonical string) bool {
	return slices.ContainsFunc(c.Headers, func(h Header) bool { return http.CanonicalHeaderKey(h.Name) == canonical })
}

// secrets are the values that no error may show.
func (c *Config) secrets() []string {
	secrets := []string{c.Key}
	for _, h := range c.Headers {
		name := strings.ToLower(h.Name)
		for _, word := range []string{"key", "token", "auth", "secret"} {
			if strings.Contains(name, word) {
				secrets = append(secrets, strings.TrimPrefix(h.Value, "Bearer "))
				break
			}
		}
	}
	return secrets
}

// isVersion reports whether a parameter of a query is Azure's API version,
// which need not be hidden.
func isVersion(name string) bool { return strings.EqualFold(name, "api-version") }

// querySecrets are the values of a base URL's query that no error may show.
func querySecrets(query url.Values) []string {
	var secrets []string
	for name, values := range query {
		if !isVersion(name) {
			for _, v := range values {
				secrets = append(secrets, v, url.QueryEscape(v))
			}
		}
	}
	return secrets
}

// RedactURL returns a URL that is safe to show: without the password, and
// without the values of its query, where some servers expect the key.
func RedactURL(s string) string {
	if !strings.ContainsAny(s, "@?#") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return "[redacted]"
	}
	query := u.Query()
	for name := range query {
		if !isVersion(name) {
			query[name] = []string{"redacted"}
		}
	}
	u.RawQuery, u.Fragment = query.Encode(), ""
	if u.User != nil {
		u.User = url.User("redacted") // some take the name for the key
	}
	return u.String()
}

// redactor returns a function that removes secrets from a server's texts.
func redactor(secrets []string) func(string) string {
	const shortest = 8 // a placeholder such as "none" is no secret, and may be a word
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= shortest {
			pairs = append(pairs, secret, "[key]")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}
