// The site of the documentation: https://vitepress.dev/reference/site-config
import { posix } from 'node:path'

const repository = 'https://github.com/x/pygent'

// The pages that include a document of the repository's root.
const included = ['security.md', 'contributing.md']

// outside makes links to files of the repository that are not pages, such as examples,
// links to the repository. In the repository itself they work as they are written.
function outside(md) {
  md.core.ruler.push('outside', (state) => {
    const page = state.env.relativePath ?? ''
    const dir = included.includes(page) ? '.' : posix.dirname(posix.join('docs', page))
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        const href = token.type === 'link_open' ? token.attrGet('href') : null
        if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
        const target = posix.join(dir, href)
        const [file, anchor] = target.split('#')
        const name = included.find((name) => name === file.toLowerCase())
        if (name) token.attrSet('href', '/' + name + (anchor ? '#' + anchor : ''))
        else if (!target.startsWith('docs/')) token.attrSet('href', `${repository}/blob/main/${target}`)
        else if (dir === '.') token.attrSet('href', target.slice('docs'.length))
      }
    }
  })
}

// section returns a group of the sidebar: the pages of a directory, by file name.
function section(text, dir, pages) {
  return { text, items: Object.entries(pages).map(([name, text]) => ({ text, link: `/${dir}${name}` })) }
}

const sidebar = [
  section('Start', '', { 'getting-started': 'Getting started', models: 'Models', concepts: 'Concepts' }),
  section('Guides: the command', 'guides/', {
    terminal: 'The terminal session', web: 'The web UI', ci: 'Scripts and CI', sessions: 'Sessions', undo: 'Undo and fork',
    network: 'Network access', project: 'AGENTS.md and skills', script: 'The start-up script', git: 'Git',
    local: 'Without a container', remote: 'Engines and images',
  }),
  section('Guides: Go programs', 'guides/', {
    tools: 'Tools', approvals: 'Approvals', events: 'Events', history: 'Conversations', tasks: 'Background tasks',
    'own-model': 'Your own model', 'own-runtime': 'Your own runtime', testing: 'Testing', cost: 'Usage and limits',
    typed: 'Typed results and the prompt',
  }),
  section('Reference', 'reference/', {
    command: 'Commands and flags', configuration: 'Configuration', 'slash-commands': 'Slash commands', tools: 'Tools', events: 'Events',
  }),
  section('Operations', '', { operations: 'Operations', troubleshooting: 'Troubleshooting', providers: 'What providers need', faq: 'FAQ' }),
  section('Project', '', { security: 'Security', contributing: 'Contributing' }),
]

export default {
  title: 'pygent',
  description: 'A coding agent that you can embed in a Go program.',
  lang: 'en',
  outDir: '../.build/site',
  srcExclude: ['node_modules/**'],
  markdown: { config: outside },
  themeConfig: {
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path` },
    outline: [2, 3],
    sidebar,
    nav: [{ text: 'Guides', link: '/getting-started' }, { text: 'Reference', link: '/reference/command' }],
  },
}
