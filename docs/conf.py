# Sphinx configuration: make docs
#
# SPDX-License-Identifier: GPL-2.0-or-later
project = 'virtio-balloon report delay'
html_theme = 'alabaster'
html_theme_options = {'nosidebar': False, 'page_width': '1000px'}
html_show_copyright = False
html_show_sphinx = False
