/*
 * lsp.h - tables of the routes of language servers, walked by a test against the OpenAPI document.
 */
#ifndef CAISSON_API_DAYTONA_LSP_H
#define CAISSON_API_DAYTONA_LSP_H

#include "api/daytona/toolbox.h"

extern const struct jt_table lsp_server_table, lsp_document_table, lsp_completion_table,
	lsp_position_table, lsp_context_table;

#endif
